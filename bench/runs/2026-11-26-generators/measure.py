import json,os,resource,subprocess,sys,time
import sys; BENCH=[sys.argv[1],"bench"]; NODES=sys.argv[2]
nodes=subprocess.Popen(["taskset","-c","0",NODES,"nodes","--ports","0","--data","3"],stdout=subprocess.PIPE,text=True)
port=json.loads(nodes.stdout.readline())["ports"][0]
def run(words):
    before=resource.getrusage(resource.RUSAGE_CHILDREN); t=time.time()
    out=subprocess.run(["taskset","-c","1"]+words,stdout=subprocess.PIPE,stderr=subprocess.DEVNULL,text=True).stdout
    after=resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime-before.ru_utime, after.ru_stime-before.ru_stime, time.time()-t, out)
try:
    for test in ["set","get","mset"]:
        for P,n in [(1,300_000),(16,2_000_000),(100,4_000_000)]:
            if test=="mset": n//=4
            rows={}
            for rnd in range(5):
                for name,prog in [("redis-benchmark",["redis-benchmark"]),("shardis bench",BENCH)][:: 1 if rnd%2==0 else -1]:
                    u,s,w,out=run(prog+["-p",str(port),"-t",test,"-n",str(n),"-P",str(P),"-r","100000","-c","50","-q"])
                    assert "requests per second" in out, out
                    rows.setdefault(name,[]).append((n/(u+s),u,s,w))
            for name,r in rows.items():
                r.sort(); m=r[len(r)//2]
                print(json.dumps({"test":test,"pipeline":P,"requests":n,"generator":name,"requests_per_cpu_second":round(m[0]),"all":[round(x[0]) for x in r],"user_s":round(m[1],3),"system_s":round(m[2],3),"wall_s":round(m[3],2)}),flush=True)
finally:
    nodes.terminate(); nodes.wait()
